"""Dependencies of the console's pages."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from manilla.approvals import approvals
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.http import Network
from manilla.merchants.directory import Directory
from manilla.methods.catalogue import Catalogue
from manilla.payments.charges import ChargeService
from manilla.people.demo_login import DemoLogin
from manilla.people.mail import Mailer
from manilla.platform.settings import CurrentSettings
from manilla.providers.rails import Rails


class ConsoleDesk(msgspec.Struct, frozen=True):
    db: Database
    keyring: Keyring
    platform: CurrentSettings
    directory: Directory
    methods: Catalogue
    rails: Rails
    till: ChargeService
    mailer: Mailer
    base_url: str
    trusted_proxies: Sequence[Network]
    is_development: bool
    demo_login: DemoLogin | None  # the demo user, in development mode
    data_folder: Path | None  # None if the database runs on another host

    @property
    def office(self) -> approvals.Desk:
        """Applies changes that may need a second administrator."""
        return approvals.Desk(self.db, self.keyring, is_production_mode=not self.is_development)
