"""The permissions of each role."""

from manilla.people.roles import ConsoleRole, Permission, Role, permissions_of

DASHBOARD = {
    "owner": "view use_credentials configure move_money manage_team profile",
    "developer": "view use_credentials configure",
    "finance": "view move_money",
    "viewer": "view",
}
CONSOLE = {
    "administrator": "console_view merchants payout_desk money_alone platform people support_tools",
    "operations": "console_view merchants payout_desk support_tools",
    "support": "console_view support_tools",
}


def test_every_role_has_exactly_its_listed_permissions() -> None:
    assert set(DASHBOARD) == set(Role)
    assert set(CONSOLE) == set(ConsoleRole)
    for role, words in (DASHBOARD | CONSOLE).items():
        assert permissions_of(role) == {Permission(word) for word in words.split()}, role


def test_no_role_and_an_unknown_role_have_no_permissions() -> None:
    assert permissions_of(None) == permissions_of("root") == frozenset()


def test_no_permission_belongs_to_both_realms() -> None:
    dashboard = frozenset[Permission]().union(*map(permissions_of, Role))
    console = frozenset[Permission]().union(*map(permissions_of, ConsoleRole))
    assert not dashboard & console
    assert dashboard | console == set(Permission)
