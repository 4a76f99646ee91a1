from flask import Blueprint, render_template

from .db import get_db

bp = Blueprint("blog", __name__)


@bp.route("/")
def index():
    posts = get_db().execute("SELECT title FROM post").fetchall()
    return render_template("index.html", posts=posts)
