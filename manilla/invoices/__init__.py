"""Monthly fee invoices to merchants, and the returns and remittances of taxes."""
