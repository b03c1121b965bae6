// Compiled by `tsc -p test`, never run: the types reject what the client would reject.

import { Client, DuplicateReference, verifyWebhook, type Credentials } from "manilla-client";

export async function typesOfCalls(credentials: Credentials): Promise<void> {
  const client = new Client("https://pay.example", credentials);
  const order = {
    currency_code: "NGN",
    ref_trx: "ORDER-1",
    success_redirect: "https://shop.example/paid",
    cancel_redirect: "https://shop.example/basket",
    ipn_url: "https://shop.example/ipn",
  };
  const session = await client.initiatePayment({ ...order, payment_amount: "1500.50" });
  await client.initiatePayment({ ...order, payment_amount: { minor: 150050n } });
  // @ts-expect-error A number is never an amount.
  await client.initiatePayment({ ...order, payment_amount: 1500.5 });
  // @ts-expect-error The amount is required.
  await client.initiatePayment(order);
  // @ts-expect-error The field is misspelled.
  await client.initiatePayment({ ...order, payment_amount: "1", custmer_name: "Ada" });

  const amount: string = session.info.amount;
  const payment = await client.verifyPayment(session.trx_id);
  if (payment.status === "success") {
    const net: string = payment.net_amount;
    // @ts-expect-error A completed payment has no error code.
    console.log(amount, net, payment.error_code);
  } else {
    // @ts-expect-error An unfinished payment has no net amount.
    console.log(payment.message, payment.net_amount);
  }

  for await (const payout of client.payouts({ status: "failed", since: new Date() })) {
    const when: string = payout.created_at;
    console.log(when);
  }
  // @ts-expect-error This status does not exist.
  client.payouts({ status: "lost" });

  const event = await verifyWebhook(new Uint8Array(), new Headers(), "whsec_");
  const type: string = event.type;
  console.log(type, (error: unknown) => error instanceof DuplicateReference && error.trxId);
}
