local yield_key = KEYS[#KEYS - 2]
