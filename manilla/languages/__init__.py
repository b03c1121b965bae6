"""The languages of checkout, receipts and emails to customers.

English texts are in the code and the templates. `catalogues/` contains their translations.
"""
