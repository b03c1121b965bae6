"""A provider's disputes in memory, with the calls of the port.

The tests of each kind's adapter use the simulator. This one lets a test decide what each call
returns, such as a response that is lost after the provider has the answer.
"""

from datetime import datetime

import msgspec

from manilla.providers.port import (
    Answer,
    DisputeAnswer,
    DisputePage,
    DisputeState,
    Done,
    EvidenceField,
    EvidenceFile,
    RefusalCode,
    Refused,
    ReportedDisputeStatus,
    Unknown,
)

LOST_RESPONSE = Unknown("the response was lost")
NEVER_SENT = Unknown("no connection", never_sent=True)


def rejected(words: str) -> Refused:
    return Refused(RefusalCode.DISPUTE_ANSWER_REJECTED, words)


class DisputeApi:
    can_list = True
    files_max = 5
    needs_file = False

    def __init__(self) -> None:
        self.states: dict[str, DisputeState] = {}
        self.fields: tuple[EvidenceField, ...] = ()
        self.answers: list[DisputeAnswer] = []
        self.uploads: list[EvidenceFile] = []
        self.page_size = 100
        # The next results of `answer` instead of a success. A lost response comes after it.
        self.answer_results: list[Refused | Unknown] = []
        self.upload_result: Refused | Unknown | None = None
        self.state_result: Refused | Unknown | None = None
        self.keeps_lost_answers = True

    def show(self, state: DisputeState) -> None:
        self.states[state.provider_reference] = state

    def evidence_fields(self, _category: str) -> tuple[EvidenceField, ...]:
        return self.fields

    async def listed(
        self, _since: datetime, _until: datetime, start: str | None = None
    ) -> Answer[DisputePage]:
        if self.state_result is not None:
            return self.state_result
        first = int(start or 0)
        rows = list(self.states.values())
        page = rows[first : first + self.page_size]
        following = first + self.page_size
        return Done(DisputePage(page, str(following) if following < len(rows) else None))

    async def state(self, provider_reference: str) -> Answer[DisputeState]:
        if self.state_result is not None:
            return self.state_result
        unknown = DisputeState(
            provider_reference=provider_reference, status=ReportedDisputeStatus.NOT_FOUND
        )
        return Done(self.states.get(provider_reference, unknown))

    async def upload(self, _provider_reference: str, file: EvidenceFile) -> Answer[str]:
        if self.upload_result is not None:
            return self.upload_result
        self.uploads.append(file)
        return Done(f"file-{len(self.uploads)}")

    async def answer(self, answer: DisputeAnswer) -> Answer[DisputeState]:
        result = self.answer_results.pop(0) if self.answer_results else None
        is_kept = result is None or (result is LOST_RESPONSE and self.keeps_lost_answers)
        if is_kept:
            self.answers.append(answer)
            status = ReportedDisputeStatus.SUBMITTED
            if answer.is_accepted:
                status = ReportedDisputeStatus.ACCEPTED
            self.show(
                msgspec.structs.replace(self.states[answer.provider_reference], status=status)
            )
        return Done(self.states[answer.provider_reference]) if result is None else result
