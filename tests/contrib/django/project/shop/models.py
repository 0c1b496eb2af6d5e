from django.db import models


class Order(models.Model):
    text = models.CharField(max_length=100)
    paid = models.BooleanField(default=False)
