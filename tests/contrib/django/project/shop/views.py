from django.http import HttpResponse

from shop.jobs import pay
from shop.models import Order


def order(request):
    made = Order.objects.create(text=request.GET["text"])
    handle = pay.enqueue(order=made.id)
    if "fail" in request.GET:
        raise RuntimeError("after the job was enqueued")
    return HttpResponse(str(handle.id))
