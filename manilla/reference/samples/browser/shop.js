const result = document.querySelector("#result");

// Ask your own server, which calls verify-payment. Never trust the browser alone.
async function showOrder() {
  const order = await (await fetch("/order")).json();
  result.textContent = order.is_paid ? "Thank you for your order." : "Not paid yet.";
}

document.querySelector("#pay").addEventListener("click", async () => {
  const { payment_url } = await (await fetch("/pay", { method: "POST" })).json();
  Manilla.open({ url: payment_url, onSuccess: showOrder, onClose: showOrder });
});
