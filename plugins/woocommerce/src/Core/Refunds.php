<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

use Manilla\Client;
use Manilla\Errors\DuplicateReference;
use Manilla\Errors\ManillaError;
use Manilla\Models\VerifiedRefund;

/**
 * Refunds payments, and notes refunds that were made in Manilla.
 *
 * A refund's reference is stored before the call. While the answer is missing, no other refund of the
 * order is sent, so a lost answer cannot lead to a second refund.
 */
final class Refunds
{
    private const REASON_LENGTH_MAX = 200;
    private const SAME_SECONDS = 60;
    // Refunds are read again for this time, because a list can be a little behind.
    private const OVERLAP_SECONDS = 3600;

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
     * Refunds a part of the order's payment. `$shop_refund_id` is the shop's record of this refund.
     *
     * @throws CannotRefund
     */
    public function refund(int $order_id, string $amount, string $reason, int $shop_refund_id): ShopRefund
    {
        return $this->lock->hold($order_id, function () use ($order_id, $amount, $reason, $shop_refund_id) {
            $earlier = $this->unresolved($order_id);
            if ($earlier !== null) {
                return $this->repeat($earlier, $amount, $shop_refund_id);
            }
            foreach ($this->store->refunds($order_id) as $known) {
                if ($this->canBeSame($known, $amount, $shop_refund_id)) {
                    throw new CannotRefund(CannotRefund::CHANGED);
                }
            }
            $paid = $this->attemptIn($order_id, AttemptState::Paid);
            return $this->send($this->newRefund($paid, $amount, $reason, $shop_refund_id));
        });
    }

    /** Refunds a second payment of an order in full. The order itself stays paid. */
    public function refundExtra(int $order_id, string $trx_id): ShopRefund
    {
        return $this->lock->hold($order_id, function () use ($order_id, $trx_id) {
            $earlier = $this->unresolved($order_id);
            if ($earlier !== null) {
                return $this->repeat($earlier, $earlier->amount, null);
            }
            $extra = $this->store->attemptByTrx($trx_id);
            if ($extra?->order_id !== $order_id || $extra->state !== AttemptState::Extra) {
                throw new CannotRefund(CannotRefund::NO_PAYMENT);
            }
            foreach ($this->store->refunds($order_id) as $known) {
                $is_void = in_array($known->state, [RefundState::Rejected, RefundState::Failed], true);
                if ($known->payment_trx_id === $trx_id && !$is_void) {
                    throw new CannotRefund(CannotRefund::CHANGED);
                }
            }
            return $this->send($this->newRefund($extra, $extra->amount, 'Paid twice', null));
        });
    }

    /** Checks a refund whose result is not final. */
    public function settle(ShopRefund $refund): void
    {
        $found = $this->find($refund);
        if ($found !== null) {
            $this->note($found);
            return;
        }
        $this->lock->hold($refund->order_id, function () use ($refund): void {
            $current = $this->store->refund($refund->ref);
            if ($current?->state === RefundState::Rejected) {
                $this->close($current, RefundState::Rejected); // The shop ended before it removed its record.
                return;
            }
            if ($current?->state !== RefundState::Sending || $this->canArrive($current)) {
                return;
            }
            $this->close($current, RefundState::Rejected);
            $this->orders->note($current->order_id, Note::RefundNeverSent, $current->amount);
        });
    }

    /** Notes a refund of one of the shop's payments, whoever made it. Others are ignored. */
    public function note(VerifiedRefund $found): void
    {
        $payment = $this->store->attemptByTrx($found->payment_trx_id);
        if ($payment === null || $payment->environment !== $this->config->environment) {
            return;
        }
        $this->lock->hold($payment->order_id, function () use ($payment, $found): void {
            $known = $this->store->refundByTrx($found->trx_id)
                ?? ($found->ref_trx === null ? null : $this->store->refund($found->ref_trx));
            if ($known === null && $found->status === 'failed') {
                return;
            }
            // Read again inside the lock: a payment can have become successful meanwhile.
            $payment = $this->store->attempt($payment->ref) ?? $payment;
            $this->advance($known ?? $this->made($payment, $found), $payment, $found);
        });
    }

    /** Notes what was refunded in Manilla since the last call, in case that events were lost. */
    public function readNew(): void
    {
        $started_at = $this->clock->now();
        $since = new \DateTimeImmutable('@' . ($this->store->readRefundsSince() - self::OVERLAP_SECONDS));
        foreach ($this->client->refunds(['since' => $since]) as $found) {
            $this->note($found);
        }
        $this->store->saveReadRefundsSince($started_at);
    }

    private function attemptIn(int $order_id, AttemptState $state): Attempt
    {
        foreach ($this->store->attempts($order_id) as $attempt) {
            if ($attempt->state === $state && $attempt->environment === $this->config->environment) {
                return $attempt;
            }
        }
        throw new CannotRefund(CannotRefund::NO_PAYMENT);
    }

    private function unresolved(int $order_id): ?ShopRefund
    {
        foreach ($this->store->refunds($order_id) as $refund) {
            if ($refund->state === RefundState::Sending) {
                return $refund;
            }
        }
        return null;
    }

    /** Whether somebody may have asked for this refund before they could see the known one. */
    private function canBeSame(ShopRefund $known, string $amount, int $shop_refund_id): bool
    {
        $is_recent = $this->clock->now() - $known->sent_at < self::SAME_SECONDS;
        $is_newer = $known->shop_refund_id > $shop_refund_id;
        return $known->state !== RefundState::Rejected
            && ($is_newer || ($is_recent && Amounts::areEqual($known->amount, $amount)));
    }

    private function newRefund(Attempt $payment, string $amount, string $reason, ?int $shop_refund_id): ShopRefund
    {
        $now = $this->clock->now();
        return new ShopRefund(
            Reference::create($this->config->prefix, $payment->order_id),
            $payment->order_id,
            (string) $payment->trx_id,
            $payment->environment,
            $amount,
            self::line($reason),
            $now,
            $now,
            shop_refund_id: $shop_refund_id,
            next_check_at: Schedule::next($now, $now, is_final: false),
        );
    }

    /** Finds out what happened to a refund without an answer, before another one is sent. */
    private function repeat(ShopRefund $earlier, string $amount, ?int $shop_refund_id): ShopRefund
    {
        $is_same = Amounts::areEqual($earlier->amount, $amount);
        $has_record = $earlier->shop_refund_id !== null
            && $this->orders->hasRefund($earlier->order_id, $earlier->shop_refund_id);
        $is_extra = $earlier->shop_refund_id === null;
        if (!$is_same || $has_record || $is_extra !== ($shop_refund_id === null)) {
            throw new CannotRefund(CannotRefund::UNKNOWN);
        }
        $earlier->shop_refund_id = $shop_refund_id;
        return $this->send($earlier);
    }

    private function send(ShopRefund $refund): ShopRefund
    {
        $request = ['trx_id' => $refund->payment_trx_id, 'ref_trx' => $refund->ref, 'amount' => $refund->amount];
        if ($refund->reason !== '') {
            $request['reason'] = $refund->reason;
        }
        $refund->sent_at = $this->clock->now();
        $this->store->saveRefund($refund); // before the call, because its answer can be lost
        try {
            $refund->trx_id = $this->client->initiateRefund($request, $refund->ref)->trx_id;
        } catch (DuplicateReference $error) {
            $refund->trx_id = $error->trx_id ?? throw $this->unknown($refund, $error);
        } catch (ManillaError | \InvalidArgumentException $error) {
            if ($error instanceof ManillaError && $error->outcome_unknown) {
                throw $this->unknown($refund, $error);
            }
            $refund->state = RefundState::Rejected; // The shop removes its record itself.
            $refund->next_check_at = $this->clock->now() + Schedule::LOST_SECONDS;
            $this->store->saveRefund($refund);
            throw new CannotRefund(CannotRefund::REJECTED, $error->getMessage(), $error);
        }
        $refund->state = RefundState::Pending;
        $this->store->saveRefund($refund);
        $this->orders->note($refund->order_id, Note::RefundStarted, $refund->trx_id, $refund->amount);
        return $refund;
    }

    private function unknown(ShopRefund $refund, ManillaError $error): CannotRefund
    {
        $this->orders->note($refund->order_id, Note::RefundUnknown, $refund->amount);
        return new CannotRefund(CannotRefund::UNKNOWN, previous: $error);
    }

    private function find(ShopRefund $refund): ?VerifiedRefund
    {
        if ($refund->trx_id !== null) {
            return $this->client->verifyRefund($refund->trx_id);
        }
        foreach ($this->client->refunds(['ref_trx' => $refund->ref]) as $found) {
            return $found;
        }
        return null;
    }

    private function canArrive(ShopRefund $refund): bool
    {
        return $this->clock->now() - $refund->sent_at <= Schedule::LOST_SECONDS;
    }

    private function made(Attempt $payment, VerifiedRefund $found): ShopRefund
    {
        $now = $this->clock->now();
        return new ShopRefund(
            $found->ref_trx ?? $found->trx_id,
            $payment->order_id,
            $found->payment_trx_id,
            $payment->environment,
            $found->amount,
            self::line($found->reason ?? ''),
            $now,
            $now,
            RefundState::Recording,
            $found->trx_id,
            next_check_at: $now,
        );
    }

    /** Brings the shop's record to the refund's status. The caller holds the order's lock. */
    private function advance(ShopRefund $refund, Attempt $payment, VerifiedRefund $found): void
    {
        $before = $refund->state;
        if (in_array($before, [RefundState::Success, RefundState::Failed], true)) {
            return;
        }
        $refund->trx_id = $found->trx_id;
        if ($found->status === 'failed') {
            $this->close($refund, RefundState::Failed);
            $this->orders->note($refund->order_id, Note::RefundFailed, $found->trx_id, $found->amount);
            return;
        }
        $this->record($refund, $payment, $found);
        $refund->state = $found->status === 'success' ? RefundState::Success : RefundState::Pending;
        $now = $this->clock->now();
        $is_done = $refund->state === RefundState::Success;
        $refund->next_check_at = $is_done ? null : Schedule::next($now, $refund->created_at, is_final: false);
        $this->store->saveRefund($refund);
        if ($is_done) {
            $this->orders->note($refund->order_id, Note::RefundDone, $found->trx_id, $found->amount);
        }
    }

    /** Ensures that the shop has a record of the refund, except for money that the order never had. */
    private function record(ShopRefund $refund, Attempt $payment, VerifiedRefund $found): void
    {
        $id = $refund->shop_refund_id;
        if ($refund->state === RefundState::Pending || ($id !== null && $this->orders->hasRefund($refund->order_id, $id))) {
            return;
        }
        $refund->sent_at = $this->clock->now(); // Staff see it from now on.
        $this->store->saveRefund($refund); // before it is recorded, so that a crash is repeated
        $about = [$found->trx_id, $found->amount];
        if ($found->source === 'customer_credit' || $payment->state !== AttemptState::Paid) {
            $note = $found->source === 'customer_credit' ? Note::CreditReturned : Note::ExtraRefunded;
            $this->orders->note($refund->order_id, $note, ...$about);
            return;
        }
        $refund->shop_refund_id = $this->orders->recordRefund(
            $refund->order_id,
            $found->amount,
            $refund->reason,
            $found->trx_id,
        );
        $this->orders->note($refund->order_id, Note::RefundMadeInManilla, ...$about);
    }

    private function close(ShopRefund $refund, RefundState $state): void
    {
        $id = $refund->shop_refund_id;
        if ($id !== null && $this->orders->hasRefund($refund->order_id, $id)) {
            $this->orders->removeRefund($refund->order_id, $id);
        }
        $refund->state = $state;
        $refund->next_check_at = null;
        $this->store->saveRefund($refund);
    }

    private static function line(string $text): string
    {
        $plain = trim((string) preg_replace('/[\p{C}\s]+/u', ' ', $text));
        return mb_substr($plain, 0, self::REASON_LENGTH_MAX);
    }
}
