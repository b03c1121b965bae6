"""During a master key rotation, secrets stay readable. Afterwards the old key decrypts nothing."""

import json
from pathlib import Path

import pytest

from tests.support.command import manilla
from tests.support.instance import Instance

pytestmark = pytest.mark.long


def test_all_secrets_move_to_a_new_master_key(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "data", "--no-demo").wait()
    try:
        merchant = instance.command("merchant", "create", "Ada", "a@example.com")
        instance.command("merchant", "set", str(merchant["id"]), "--bvn", "22222222222")
        key = ("api-key", "create", str(merchant["id"]), "Shop", "--environment", "sandbox")
        instance.command(*key, "--right", "read")
        instance.command("provider", "set", "providerc", "secret_key=x", "webhook_secret=y")
        old = (instance.folder / "master.key").read_text()
        new = manilla("master-key", "generate").stdout.strip()
        data = ("--json", "--data", str(instance.folder))

        too_early = manilla("provider", "show", *data, MANILLA_MASTER_KEY=new)
        assert (too_early.returncode, "master key" in too_early.stderr) == (1, True)

        both = {"MANILLA_MASTER_KEY": new, "MANILLA_MASTER_KEYS_PREVIOUS": old}
        moved = json.loads(manilla("master-key", "rewrap", *data, **both).stdout)
        assert moved == {
            "master_key_proof.sealed": 1,
            "credential.secret_sealed": 2,
            "api_key.secret_sealed": 1,
            "merchant.bvn_sealed": 1,
            "provider_credentials.sealed": 1,
            "person.totp_sealed": 0,
            "approval.payload_sealed": 0,
            "mail.sealed": 0,
            "dossier_document.content_sealed": 0,
            "dispute_file.content_sealed": 0,
            "customer.bvn_sealed": 0,
            "customer.nin_sealed": 0,
            "saved_way.token_sealed": 0,
            "endpoint_secret.sealed": 0,
            "cell.token_sealed": 0,
            "sign_in_provider.secret_sealed": 0,
            "audit_target.authorization_sealed": 0,
        }
        again = json.loads(manilla("master-key", "rewrap", *data, **both).stdout)
        assert set(again.values()) == {0}
        shown = manilla("provider", "show", "providerc", *data, MANILLA_MASTER_KEY=new)
        assert json.loads(shown.stdout)["valid"]
        assert manilla("provider", "show", *data, MANILLA_MASTER_KEY=old).returncode == 1
    finally:
        instance.stop()
