"""All-gather of the rows of A over several devices, and the product with local weights."""
