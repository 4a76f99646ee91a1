import uvicorn
from fastapi import Depends, FastAPI

from .dependencies import get_token_header
from .routers import items, users

app = FastAPI()

app.include_router(users.router)
app.include_router(
    items.router,
    prefix="/items",
    dependencies=[Depends(get_token_header)],
)


@app.get("/")
async def root():
    return {"message": "Hello Bigger Applications!"}


if __name__ == "__main__":
    uvicorn.run("app.main:app", host="0.0.0.0", port=8000, reload=True)
