module github.com/example/shop/v2

go 1.18
