import sys

from manilla_client.command import main

sys.exit(main())
