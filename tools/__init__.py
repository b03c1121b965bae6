"""Development tools: checks, the test runner, the installer and scripts that create pictures."""
