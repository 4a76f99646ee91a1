from flask import Flask, request
from markupsafe import escape

app = Flask(__name__)


@app.route("/")
def hello_world():
    return "<p>Hello, World!</p>"


@app.route("/hello/<name>")
def hello(name):
    return f"Hello, {escape(name)} by {request.scheme}!"


if __name__ == "__main__":
    app.run(debug=True)
