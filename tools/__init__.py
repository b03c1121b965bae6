"""Development tools: code checks, the test runner, the installer and scripts for pictures."""
