from aiohttp import web


async def handle(request):
    name = request.match_info.get("name", "Anonymous")
    return web.Response(text="Hello, " + name)


app = web.Application()
app.add_routes([web.get("/", handle), web.get("/{name}", handle)])

if __name__ == "__main__":
    web.run_app(app)
