module example.com/welcome

go 1.18

require github.com/gin-gonic/gin v1.8.1
