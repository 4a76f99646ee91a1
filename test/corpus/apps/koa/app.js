'use strict';
const Koa = require('koa');
const app = new Koa();

app.use(async (ctx, next) => {
  const start = Date.now();
  await next();
  ctx.set('X-Response-Time', `${Date.now() - start}ms`);
});

app.use(async ctx => {
  ctx.body = 'Hello Koa';
});

app.listen(process.env.PORT || 3000);
