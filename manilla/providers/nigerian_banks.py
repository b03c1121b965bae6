"""Nigerian banks, with their central bank (CBN) codes and interbank (NIP) institution codes."""

from typing import NamedTuple


class NigerianBank(NamedTuple):
    name: str
    central_bank_code: str
    institution_code: str


_TABLE = """
Access Bank                | 044    | 000014
Citibank Nigeria           | 023    | 000009
Ecobank Nigeria            | 050    | 000010
Fidelity Bank              | 070    | 000007
First Bank of Nigeria      | 011    | 000016
First City Monument Bank   | 214    | 000003
Globus Bank                | 00103  | 000027
Guaranty Trust Bank        | 058    | 000013
Heritage Bank              | 030    | 000020
Jaiz Bank                  | 301    | 000006
Keystone Bank              | 082    | 000002
Kuda Microfinance Bank     | 50211  | 090267
Lotus Bank                 | 303    | 000029
Moniepoint MFB             | 50515  | 090405
OPay                       | 999992 | 100004
Optimus Bank               | 107    | 000036
PalmPay                    | 999991 | 100033
Parallex Bank              | 104    | 000030
Polaris Bank               | 076    | 000008
PremiumTrust Bank          | 105    | 000031
Providus Bank              | 101    | 000023
Stanbic IBTC Bank          | 221    | 000012
Standard Chartered Bank    | 068    | 000021
Sterling Bank              | 232    | 000001
SunTrust Bank              | 100    | 000022
TAJBank                    | 302    | 000026
Titan Trust Bank           | 102    | 000025
Union Bank of Nigeria      | 032    | 000018
United Bank for Africa     | 033    | 000004
Unity Bank                 | 215    | 000011
VFD Microfinance Bank      | 566    | 090110
Wema Bank                  | 035    | 000017
Zenith Bank                | 057    | 000015
"""
BANKS = [
    NigerianBank(*(cell.strip() for cell in line.split("|")))
    for line in _TABLE.strip().splitlines()
]
