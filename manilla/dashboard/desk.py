"""Dependencies of the dashboard's pages."""

from collections.abc import Sequence

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.http import Network
from manilla.merchants.directory import Directory
from manilla.methods.catalogue import Catalogue
from manilla.payouts.banks import Banks
from manilla.payouts.beneficiary import Resolver
from manilla.payouts.initiate import Initiation
from manilla.payouts.preview import Previews
from manilla.people.demo_login import DemoLogin
from manilla.people.mail import Mailer
from manilla.platform.settings import CurrentSettings
from manilla.providers.rails import Rails
from manilla.web.workbench import Workbench


class Desk(msgspec.Struct, frozen=True):
    db: Database
    keyring: Keyring
    platform: CurrentSettings
    directory: Directory
    methods: Catalogue
    rails: Rails
    banks: Banks
    resolver: Resolver
    payouts: Initiation
    mailer: Mailer
    workbench: Workbench
    base_url: str
    trusted_proxies: Sequence[Network]
    is_development: bool
    demo_login: DemoLogin | None  # the demo user, in development mode

    @property
    def previews(self) -> Previews:
        return Previews(self.db, self.platform, self.methods, self.rails, self.banks, self.resolver)
