"""The ledger of published claims, config/claims/*.yaml: what others printed, ready to be tested."""
