from django.shortcuts import render

from .models import Question


def index(request):
    latest = Question.objects.order_by("-pub_date")[:5]
    return render(request, "polls/index.html", {"latest_question_list": latest})


def about(request):
    return render(request, "polls/about.html")
