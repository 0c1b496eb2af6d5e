from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [("treadle", "__first__")]
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("text", models.CharField(max_length=100)),
                ("paid", models.BooleanField(default=False)),
            ],
        ),
    ]
