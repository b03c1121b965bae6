"""The job that handles a request to reset a password.

The page only creates this job, for both known and unknown email addresses, so that its response
time does not reveal who has an account.
"""

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, Work
from manilla.people import persons, resets
from manilla.people.roles import Realm


async def request_reset(db: Database, realm: Realm, email: str) -> None:
    normal = persons.normal_email(email)
    if normal is not None:
        await jobs.put(db, 0, JobKind.RESET, f"{realm}:{normal}")


class ResetTasks:
    def __init__(self, db: Database, keyring: Keyring) -> None:
        self._db = db
        self._keyring = keyring

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.RESET: Work(self.write, concurrency=4)}

    async def write(self, job: Job) -> None:
        realm, _, email = job.subject.partition(":")
        await resets.ask(self._db, self._keyring, Realm(realm), email)
