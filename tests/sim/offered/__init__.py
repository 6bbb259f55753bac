"""Offered work as the product takes it to be, against what engines that batch continuously were really asked to do."""
