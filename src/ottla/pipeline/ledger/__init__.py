"""What users earn: entries, tasks, and the proof that the balances follow from them."""
