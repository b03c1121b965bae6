"""Handwritten examples of Monnify's responses and webhooks, with our own values.

`documented` examples have fields and types from Monnify's SDK or API reference. We inferred
`derived` examples from similar calls or from third-party code.
"""

from typing import Any

OWN = "MNFY|17|20261115090811|000340"


def ok(body: Any) -> dict[str, Any]:
    return {
        "requestSuccessful": True,
        "responseMessage": "success",
        "responseCode": "0",
        "responseBody": body,
    }


def refusal(message: str, code: str = "99") -> dict[str, Any]:
    return {"requestSuccessful": False, "responseMessage": message, "responseCode": code}


DOCUMENTED: dict[str, Any] = {
    "login": {"accessToken": "eyJhbGciOi." + "x" * 900, "expiresIn": 3567},
    "initialized": {
        "transactionReference": OWN,
        "paymentReference": "TXN0-1",
        "merchantName": "Obi Shoes",
        "apiKey": "MK_TEST_1",
        "redirectUrl": "https://pay.example.com/return",
        "enabledPaymentMethod": ["ACCOUNT_TRANSFER", "CARD"],
        "checkoutUrl": f"https://sandbox.sdk.monnify.com/checkout/{OWN}",
    },
    "account": {
        "accountNumber": "2209149705",
        "accountName": "Obi Shoes-Shoes",
        "bankName": "Sterling bank",
        "bankCode": "232",
        "accountDurationSeconds": 2400,
        "ussdPayment": None,
        "requestTime": "2126-11-15T09:11:14.596774984",
        "expiresOn": "2126-11-15T09:51:14",
        "transactionReference": OWN,
        "paymentReference": "TXN0-1",
        "amount": 1015.50,
        "fee": 0.00,
        "totalPayable": 1015.50,
        "collectionChannel": "API_NOTIFICATION",
    },
    "charge": {
        "transactionReference": OWN,
        "paymentReference": "TXN0-1",
        "amountPaid": "1015.50",
        "totalPayable": "1015.50",
        "settlementAmount": "1000.50",
        "paidOn": "15/11/2026 9:12:10 AM",
        "paymentStatus": "PAID",
        "paymentDescription": "Shoes",
        "currency": "NGN",
        "paymentMethod": "ACCOUNT_TRANSFER",
        "product": {"type": "API_NOTIFICATION", "reference": "TXN0-1"},
        "cardDetails": None,
        "customer": {"email": "ada@example.com", "name": "Ada Obi"},
    },
    "unpaid charge": {
        "transactionReference": OWN,
        "paymentReference": "TXN0-1",
        "amountPaid": "0.00",
        "totalPayable": "0.00",
        "settlementAmount": None,
        "paidOn": None,
        "paymentStatus": "PENDING",
        "currency": "NGN",
        "paymentMethod": "ACCOUNT_TRANSFER",
    },
    "banks": [
        {
            "name": "Access bank",
            "code": "044",
            "nipBankCode": "000014",
            "ussdTemplate": "*901*Amount*AccountNumber#",
            "baseUssdCode": "*901#",
            "transferUssdTemplate": "*901*AccountNumber#",
        },
        {
            "name": "Moniepoint Microfinance Bank",
            "code": "50515",
            "nipBankCode": "090405",
            "ussdTemplate": None,
            "baseUssdCode": None,
            "transferUssdTemplate": None,
        },
    ],
    "resolved": {
        "accountNumber": "0690000031",
        "accountName": "ADA OBI",
        "bankCode": "044",
        "currencyCode": "NGN",
    },
    "balance": {"availableBalance": "902118.93", "ledgerBalance": "902118.93"},
    "sent": {
        "amount": 5000.50,
        "reference": "TXN1",
        "status": "PENDING",
        "dateCreated": "2026-11-15T08:32:49.289+00:00",
        "totalFee": 20.00,
        "destinationAccountName": "ADA OBI",
        "destinationBankName": "Access bank",
        "destinationAccountNumber": "0690000031",
        "destinationBankCode": "044",
        "comment": "Transaction is pending",
    },
    "transfer": {
        "amount": 5000.50,
        "reference": "TXN1",
        "narration": "Salary",
        "currency": "NGN",
        "fee": 20.00,
        "twoFaEnabled": False,
        "status": "SUCCESS",
        "transactionDescription": "Transaction successful",
        "transactionReference": "MFDS87620261115093249000027JDW8UZ",
        "createdOn": "2026-11-15T08:32:49.000+00:00",
        "sourceAccountNumber": "8012345678",
        "destinationAccountNumber": "0690000031",
        "destinationAccountName": "ADA OBI",
        "destinationBankCode": "044",
        "destinationBankName": "Access bank",
    },
    "refund": {
        "refundReference": "TXN9",
        "transactionReference": OWN,
        "refundReason": "Returned",
        "customerNote": "Refund",
        "refundAmount": 1015.50,
        "refundType": "FULL_REFUND",
        "refundStatus": "COMPLETED",
        "refundStrategy": "MERCHANT_WALLET",
        "comment": "Transaction refund is in progress.",
        "createdOn": "15/11/2026 03:35:22 AM",
    },
}
DERIVED: dict[str, Any] = {
    "paid refund": {**DOCUMENTED["refund"], "completedOn": "15/11/2026 4:24:05 PM"},
    "transfer with session": {**DOCUMENTED["transfer"], "sessionId": "090405261115093249726272971"},
}

DOCUMENTED_EVENTS: dict[str, Any] = {
    "SUCCESSFUL_TRANSACTION": {
        "product": {"reference": "TXN0-1", "type": "API_NOTIFICATION"},
        "transactionReference": OWN,
        "paymentReference": "TXN0-1",
        "paidOn": "2026-11-15 09:12:10.615",
        "paymentDescription": "Shoes",
        "metaData": {},
        "paymentSourceInformation": [
            {
                "bankCode": "",
                "amountPaid": 1015.5,
                "accountName": "Ada Obi",
                "sessionId": "e6cV1smlpkwG38Cg6d5F9B2PRnIq5FqA",
                "accountNumber": "0065432190",
            }
        ],
        "destinationAccountInformation": {"bankCode": "232", "accountNumber": "6000140770"},
        "amountPaid": 1015.5,
        "totalPayable": 1015.5,
        "cardDetails": {},
        "paymentMethod": "ACCOUNT_TRANSFER",
        "currency": "NGN",
        "settlementAmount": "1000.50",
        "paymentStatus": "PAID",
        "customer": {"name": "Ada Obi", "email": "ada@example.com"},
    },
    "REJECTED_PAYMENT": {
        "product": {"reference": "TXN0-1", "type": "API_NOTIFICATION"},
        "amount": 1015.5,
        "paymentSourceInformation": {"bankCode": "50515", "amountPaid": 40},
        "transactionReference": OWN,
        "created_on": "2026-11-15 09:08:11.0",
        "paymentReference": "TXN0-1",
        "paymentRejectionInformation": {
            "rejectionReason": "UNDER_PAYMENT",
            "expectedAmount": 1015.5,
        },
        "paymentDescription": "Shoes",
        "customer": {"name": "Ada Obi", "email": "ada@example.com"},
    },
    "SUCCESSFUL_DISBURSEMENT": {
        "amount": 5000.5,
        "transactionReference": "MFDS|20261115032332|002431",
        "fee": 20,
        "transactionDescription": "Approved or completed successfully",
        "destinationAccountNumber": "0690000031",
        "sessionId": "090405261115032336726272971260",
        "createdOn": "15/11/2026 3:23:32 AM",
        "destinationAccountName": "ADA OBI",
        "reference": "TXN1",
        "destinationBankCode": "044",
        "completedOn": "15/11/2026 3:23:38 AM",
        "narration": "Salary",
        "currency": "NGN",
        "destinationBankName": "Access bank",
        "status": "SUCCESS",
    },
    "SUCCESSFUL_REFUND": {
        "merchantReason": "Returned",
        "transactionReference": OWN,
        "completedOn": "15/11/2026 4:24:05 PM",
        "refundStatus": "COMPLETED",
        "customerNote": "Refund",
        "createdOn": "15/11/2026 4:23:37 PM",
        "refundReference": "TXN9",
        "refundAmount": 1015.50,
    },
}
DOCUMENTED_EVENTS["FAILED_DISBURSEMENT"] = {
    **DOCUMENTED_EVENTS["SUCCESSFUL_DISBURSEMENT"],
    "status": "FAILED",
}
DOCUMENTED_EVENTS["REVERSED_DISBURSEMENT"] = {
    **DOCUMENTED_EVENTS["SUCCESSFUL_DISBURSEMENT"],
    "status": "REVERSED",
}
DOCUMENTED_EVENTS["FAILED_REFUND"] = {
    **DOCUMENTED_EVENTS["SUCCESSFUL_REFUND"],
    "refundStatus": "FAILED",
}
