<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

use Manilla\Client;
use Manilla\Errors\DuplicateReference;
use Manilla\Errors\ManillaError;
use Manilla\Errors\PaymentAlreadyPaid;
use Manilla\Models\CompletedPayment;
use Manilla\Models\UnfinishedPayment;

/**
 * Takes payments for orders. Only the API's answer to verify-payment decides whether an order is paid.
 *
 * Attempts and orders are read after the order's lock was taken: what was read before can be outdated.
 */
final class Payments
{
    // A customer needs this time on checkout, so a link that ends earlier is not used again.
    private const REUSE_SECONDS = 300;
    private const TRUST_REPORT_SECONDS = 86_400;
    private const NAME_LENGTH_MAX = 100;

    public function __construct(
        private readonly Client $client,
        private readonly Orders $orders,
        private readonly Store $store,
        private readonly Lock $lock,
        private readonly Clock $clock,
        private readonly Config $config,
    ) {
    }

    /**
     * Returns where the customer pays. An earlier payment of the order is used again, or ended first.
     *
     * @throws CannotPay
     */
    public function start(int $order_id, string $return_url, string $cancel_url): string
    {
        return $this->lock->hold($order_id, function () use ($order_id, $return_url, $cancel_url): string {
            $order = $this->payable($order_id);
            foreach ($this->store->attempts($order_id) as $attempt) {
                $url = $this->resume($order, $attempt);
                if ($url !== null) {
                    return $url;
                }
            }
            $this->payable($order_id); // an earlier payment can have completed it
            $attempt = $this->newAttempt($order, $return_url, $cancel_url);
            $this->send($attempt);
            return $attempt->payment_url ?? throw new CannotPay(CannotPay::UNKNOWN);
        });
    }

    /** Verifies a payment, and completes or fails its order. Safe to call at any time, and repeatedly. */
    public function settle(Attempt $attempt, ?string $notified_trx_id = null): void
    {
        $trx_id = $attempt->trx_id ?? $notified_trx_id ?? $this->find($attempt->ref);
        $found = $trx_id === null ? null : $this->client->verifyPayment($trx_id);
        $this->lock->hold($attempt->order_id, function () use ($attempt, $found): void {
            $current = $this->store->attempt($attempt->ref);
            if ($current === null || $current->environment !== $this->config->environment) {
                return;
            }
            if ($found !== null) {
                $this->apply($current, $found);
            } elseif ($current->trx_id === null && $this->isLost($current)) {
                $current->state = AttemptState::Rejected;
                $current->next_check_at = null;
                $this->store->saveAttempt($current);
            }
        });
    }

    /** Settles all payments of an order, such as when the customer returns. */
    public function settleOrder(int $order_id): void
    {
        foreach ($this->own($order_id) as $attempt) {
            if (!in_array($attempt->state, [AttemptState::Rejected, AttemptState::Paid], true)) {
                $this->settle($attempt);
            }
        }
    }

    /** Ends the links of a canceled order. Money that has arrived completes the order. */
    public function cancelOrder(int $order_id): void
    {
        $this->lock->hold($order_id, function () use ($order_id): void {
            foreach ($this->own($order_id) as $attempt) {
                if ($attempt->state === AttemptState::Open) {
                    $this->cancel($attempt);
                }
            }
        });
    }

    /** Returns false while the order is paid or its customer can still pay. */
    public function mayCancelUnpaid(int $order_id): bool
    {
        try {
            $this->settleOrder($order_id);
        } catch (ManillaError | Busy) {
            return false;
        }
        $now = $this->clock->now();
        foreach ($this->own($order_id) as $attempt) {
            $can_be_paid = $attempt->state === AttemptState::Open && ($attempt->expires_at ?? $now) >= $now;
            if ($can_be_paid || $attempt->state === AttemptState::Starting || $attempt->state->isSuccessful()) {
                return false;
            }
        }
        return true;
    }

    private function payable(int $order_id): Order
    {
        $order = $this->orders->read($order_id) ?? throw new CannotPay(CannotPay::NOT_PAYABLE);
        if ($order->is_paid) {
            throw new CannotPay(CannotPay::ALREADY_PAID);
        }
        return $order->can_be_paid ? $order : throw new CannotPay(CannotPay::NOT_PAYABLE);
    }

    /** @return list<Attempt> */
    private function own(int $order_id): array
    {
        $is_own = fn (Attempt $attempt): bool => $attempt->environment === $this->config->environment;
        return array_values(array_filter($this->store->attempts($order_id), $is_own));
    }

    /** Returns the link of an earlier payment, or null if this payment cannot be paid any more. */
    private function resume(Order $order, Attempt $attempt): ?string
    {
        $is_own = $attempt->environment === $this->config->environment;
        if (!$is_own || $attempt->state === AttemptState::Rejected) {
            return null;
        }
        if ($attempt->state === AttemptState::Starting) {
            try {
                $this->send($attempt);
            } catch (CannotPay $error) {
                if ($error->problem === CannotPay::REJECTED) {
                    return null; // It never took effect, so the customer gets a new attempt.
                }
                throw $error;
            }
        }
        $this->apply($attempt, $this->verified($attempt));
        if ($attempt->state->isSuccessful()) {
            throw new CannotPay(CannotPay::ALREADY_PAID);
        }
        if ($attempt->state === AttemptState::Open && $this->isUsable($order, $attempt)) {
            return $attempt->payment_url;
        }
        if ($attempt->state === AttemptState::Open || $this->isMoneyOnItsWay($attempt)) {
            $this->cancel($attempt);
            if ($attempt->state->isSuccessful()) {
                throw new CannotPay(CannotPay::ALREADY_PAID);
            }
            if ($this->isMoneyOnItsWay($attempt)) {
                throw new CannotPay(CannotPay::MONEY_ON_ITS_WAY);
            }
        }
        return null;
    }

    private function isUsable(Order $order, Attempt $attempt): bool
    {
        return $attempt->payment_url !== null
            && $attempt->currency === $order->currency
            && Amounts::areEqual($attempt->amount, $order->total)
            && ($attempt->expires_at ?? 0) - $this->clock->now() > self::REUSE_SECONDS;
    }

    private function isMoneyOnItsWay(Attempt $attempt): bool
    {
        return $attempt->late_money === 'held' || ($attempt->late_money === 'reported'
            && $this->clock->now() - $attempt->created_at < self::TRUST_REPORT_SECONDS);
    }

    private function newAttempt(Order $order, string $return_url, string $cancel_url): Attempt
    {
        $now = $this->clock->now();
        $ref = Reference::create($this->config->prefix, $order->id);
        $request = [
            'payment_amount' => $order->total,
            'currency_code' => $order->currency,
            'ref_trx' => $ref,
            'ipn_url' => $this->config->ipn_url,
            'description' => $order->description,
            'customer_name' => mb_substr($order->customer_name, 0, self::NAME_LENGTH_MAX) ?: null,
            'customer_email' => $order->customer_email ?: null,
            'success_redirect' => $return_url,
            'cancel_redirect' => $cancel_url,
        ];
        return new Attempt(
            $ref,
            $order->id,
            $this->config->environment,
            $order->total,
            $order->currency,
            json_encode(array_filter($request), JSON_THROW_ON_ERROR),
            $now,
            $now,
            next_check_at: Schedule::next($now, $now, is_final: false),
        );
    }

    /** Sends the stored request, with its reference as the idempotency key. */
    private function send(Attempt $attempt): void
    {
        $attempt->sent_at = $this->clock->now();
        $this->store->saveAttempt($attempt); // before the call, because its answer can be lost
        try {
            $request = json_decode($attempt->request, true, flags: JSON_THROW_ON_ERROR);
            $session = $this->client->initiatePayment($request, $attempt->ref, $this->config->scenario);
            $attempt->trx_id = $session->trx_id;
            $attempt->payment_url = $session->payment_url;
            $attempt->expires_at = $session->expires_at?->getTimestamp();
        } catch (DuplicateReference $error) {
            $trx_id = $error->trx_id ?? $this->find($attempt->ref);
            $attempt->trx_id = $trx_id ?? throw new CannotPay(CannotPay::UNKNOWN, $error);
            $attempt->payment_url = $error->payment_url;
        } catch (ManillaError | \InvalidArgumentException $error) {
            if ($error instanceof ManillaError && $error->outcome_unknown) {
                throw new CannotPay(CannotPay::UNKNOWN, $error);
            }
            $attempt->state = AttemptState::Rejected;
            $attempt->next_check_at = null;
            $this->store->saveAttempt($attempt);
            throw new CannotPay(CannotPay::REJECTED, $error);
        }
        $attempt->state = AttemptState::Open;
        $this->store->saveAttempt($attempt);
    }

    private function cancel(Attempt $attempt): void
    {
        try {
            $canceled = $this->client->cancelPayment((string) $attempt->trx_id);
            $attempt->state = AttemptState::Canceled;
            $attempt->late_money = $canceled->late_money;
            $this->store->saveAttempt($attempt);
        } catch (PaymentAlreadyPaid) {
            $this->apply($attempt, $this->verified($attempt));
        }
    }

    private function verified(Attempt $attempt): CompletedPayment|UnfinishedPayment
    {
        return $this->client->verifyPayment((string) $attempt->trx_id);
    }

    private function find(string $ref): ?string
    {
        foreach ($this->client->payments(['ref_trx' => $ref]) as $payment) {
            return $payment->trx_id;
        }
        return null;
    }

    private function isLost(Attempt $attempt): bool
    {
        return $this->clock->now() - $attempt->sent_at > Schedule::LOST_SECONDS;
    }

    /** Applies the payment's status to its order. The caller holds the order's lock. */
    private function apply(Attempt $attempt, CompletedPayment|UnfinishedPayment $found): void
    {
        if ($attempt->state->isSuccessful()) {
            return; // Success is final, so an older answer that arrives now is outdated.
        }
        if ($found->ref_trx !== $attempt->ref) {
            throw new \UnexpectedValueException("$found->trx_id does not belong to $attempt->ref.");
        }
        $attempt->trx_id = $found->trx_id;
        if ($found instanceof CompletedPayment) {
            $this->applySuccess($attempt, $found);
        } else {
            $this->applyUnfinished($attempt, $found);
        }
        $now = $this->clock->now();
        $is_final = $attempt->state !== AttemptState::Open;
        $is_done = $attempt->state->isSuccessful();
        $attempt->next_check_at = $is_done ? null : Schedule::next($now, $attempt->created_at, $is_final);
        $this->store->saveAttempt($attempt);
    }

    private function applySuccess(Attempt $attempt, CompletedPayment $paid): void
    {
        if (!Amounts::areEqual($paid->amount, $attempt->amount) || $paid->currency !== $attempt->currency) {
            throw new \UnexpectedValueException("$paid->trx_id has another amount than $attempt->ref.");
        }
        $order = $this->orders->read($attempt->order_id);
        $id = $attempt->order_id;
        $is_stored = $order !== null && $order->transaction_id === $paid->trx_id;
        if ($is_stored && $order->is_paid) {
            // An earlier process has completed the order, and ended before it could store that.
            $attempt->state = AttemptState::Paid;
            return;
        }
        if ($order === null || $order->is_paid || $this->isPaidByAnother($attempt)) {
            $attempt->state = AttemptState::Extra;
            $this->orders->note($id, Note::PaidTwice, $paid->trx_id, "$paid->amount $paid->currency");
            return;
        }
        $has_changed = !Amounts::areEqual($order->total, $attempt->amount)
            || $order->currency !== $attempt->currency;
        $attempt->state = AttemptState::Paid;
        if ($has_changed) {
            $this->orders->holdForReview($id, $paid->trx_id);
            $details = ["$paid->amount $paid->currency", "$order->total $order->currency"];
            $this->orders->note($id, Note::TotalChanged, $paid->trx_id, ...$details);
            return;
        }
        $this->orders->complete($id, $paid->trx_id);
        $note = $attempt->environment === 'production' ? Note::Paid : Note::PaidInSandbox;
        $this->orders->note($id, $note, $paid->trx_id, "$paid->amount $paid->currency");
        if ($order->is_canceled) {
            $this->orders->note($id, Note::PaidAfterCancellation, $paid->trx_id);
        }
        if ($paid->amount_received !== null) {
            $received = "$paid->amount_received $paid->currency";
            $this->orders->note($id, Note::OtherAmountReceived, $paid->trx_id, $received);
        }
    }

    private function isPaidByAnother(Attempt $attempt): bool
    {
        foreach ($this->store->attempts($attempt->order_id) as $other) {
            if ($other->ref !== $attempt->ref && $other->state === AttemptState::Paid) {
                return true;
            }
        }
        return false;
    }

    private function applyUnfinished(Attempt $attempt, UnfinishedPayment $found): void
    {
        $has_ended = in_array($attempt->state, [AttemptState::Failed, AttemptState::Canceled], true);
        if ($has_ended) {
            return;
        }
        $attempt->state = $found->status === 'pending' ? AttemptState::Open : AttemptState::Failed;
        if ($attempt->state === AttemptState::Failed && !$this->hasOpen($attempt)) {
            $order = $this->orders->read($attempt->order_id);
            if ($order !== null && $order->can_be_paid && !$order->is_paid) {
                $this->orders->fail($attempt->order_id);
                $this->orders->note($attempt->order_id, Note::Failed, $found->error_code ?? $found->message);
            }
        }
    }

    private function hasOpen(Attempt $attempt): bool
    {
        foreach ($this->store->attempts($attempt->order_id) as $other) {
            $is_open = in_array($other->state, [AttemptState::Starting, AttemptState::Open], true);
            if ($other->ref !== $attempt->ref && $is_open) {
                return true;
            }
        }
        return false;
    }
}
