from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


async def homepage(request):
    return JSONResponse({"hello": "world", "scheme": request.url.scheme})


app = Starlette(debug=False, routes=[Route("/", homepage)])
