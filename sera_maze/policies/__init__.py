"""Networks and the policies of Stable-Baselines3 that are made of them."""
