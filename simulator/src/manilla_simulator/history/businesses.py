"""The demo merchants: their articles, their customers and their business hours."""

from collections.abc import Mapping

import msgspec

from manilla.methods.method import Flow
from manilla.people import demo_login

WEEKDAYS = (1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)


class Business(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    email: str
    prefix: str  # the prefix of the references
    articles: Mapping[str, str]  # maps names to prices
    quantities: tuple[int, ...] = (1,)
    payments_a_day: float
    # The relative number of payments on each weekday, starting with Monday.
    by_weekday: tuple[float, ...] = WEEKDAYS
    hours: tuple[int, int]  # the first and last opening hour, in Lagos time
    busiest_hour: int
    flows: tuple[Flow, ...]  # Customers choose a flow at random, so a repeated flow is more likely.
    payouts_a_day: float
    sandbox_payments_a_day: float = 0
    sandbox_payouts_a_day: float = 0
    payout_amounts: tuple[int, int] = (20_000, 60_000)
    payout_text: str = ""


SHOP = Business(
    name="Demo Store",
    email=demo_login.EMAIL,
    prefix="ORDER",
    articles={
        "Palm-wood chair": "18500.00",
        "Calabash lamp": "7250.50",
        "Ankara tote bag": "12000.00",
        "Shea butter, 500 g": "4800.00",
        "Adire bedspread": "38500.00",
        "Raffia basket set": "9900.00",
        "Coffee for two": "3200.00",
    },
    quantities=(1, 1, 1, 1, 2, 2, 3),
    payments_a_day=17,
    by_weekday=(0.8, 0.8, 0.9, 1.0, 1.3, 1.5, 0.9),
    hours=(7, 22),
    busiest_hour=19,
    flows=(Flow.HOSTED, Flow.HOSTED, Flow.VIRTUAL_ACCOUNT),
    sandbox_payments_a_day=5,
    sandbox_payouts_a_day=0.4,
    payouts_a_day=0.6,
    payout_amounts=(90_000, 240_000),
    payout_text="Supplier",
)
SCHOOL = Business(
    name="Greenfield Academy Ikeja",
    email="bursar@greenfield.example",
    prefix="FEES",
    articles={
        "School fees, second term": "185000.00",
        "Examination fee": "27000.00",
        "School bus, one month": "35000.00",
        "School uniform": "22500.00",
        "School lunch, one month": "30000.00",
    },
    payments_a_day=6,
    hours=(7, 17),
    busiest_hour=9,
    flows=(Flow.VIRTUAL_ACCOUNT, Flow.VIRTUAL_ACCOUNT, Flow.HOSTED),
    payouts_a_day=0.3,
    payout_amounts=(120_000, 300_000),
    payout_text="Teaching materials",
)
HAULIER = Business(
    name="Sahel Line Logistics",
    email="accounts@sahelline.example",
    prefix="WAYBILL",
    articles={
        "Haulage, Apapa to Ibadan": "320000.00",
        "Delivery, Lagos to Abuja": "68000.00",
        "Delivery, Onitsha to Kano": "54500.00",
        "Dispatch on the same day, Lekki": "4500.00",
        "Parcel, Port Harcourt": "6200.00",
    },
    payments_a_day=6,
    by_weekday=(1.2, 1.0, 1.0, 1.0, 1.2, 0.5, 0.0),
    hours=(6, 19),
    busiest_hour=11,
    flows=(Flow.HOSTED, Flow.VIRTUAL_ACCOUNT),
    payouts_a_day=1.6,
    payout_text="Driver",
)
BUSINESSES = (SHOP, SCHOOL, HAULIER)
# This merchant is waiting for the operator's approval.
APPLICANT_NAME, APPLICANT_EMAIL = "Mama Titi Kitchen", "titi@mamatiti.example"

CUSTOMERS = (
    *("Chinedu Okafor", "Ngozi Eze", "Bola Adeyemi", "Aisha Bello", "Emeka Nwosu"),
    *("Funke Alabi", "Tunde Bakare", "Ada Obi", "Halima Yusuf", "Segun Ogunleye"),
    *("Ifeoma Chukwu", "Musa Ibrahim", "Kehinde Lawal", "Zainab Abubakar", "Uche Nnamdi"),
    *("Yewande Cole", "Ibrahim Danladi", "Chioma Umeh", "Femi Adebayo", "Amaka Onyeka"),
    *("Sani Garba", "Temitope Balogun", "Blessing Effiong", "Osagie Igbinedion"),
)
BANKS = ("058", "044", "011", "057", "033", "070")
