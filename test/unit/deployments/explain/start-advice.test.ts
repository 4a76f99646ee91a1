import { expect, test } from 'vitest'
import { startAdvice } from '../../../../server/src/features/deployments/advice.ts'

test.each([
  ["Error: Cannot find module 'express'", 'The package express was not installed'],
  ["Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@hono/node-server' imported from /a/b.js", '@hono/node-server'],
  ["Error: Cannot find module 'pg/lib/client'", 'The package pg was not installed'],
  ["Error: Cannot find module './routes'", 'A file that the app loads is not there'],
  ["Error: Cannot find module '/srv/app/dist/server.js'", 'that the build creates it'],
  ["ModuleNotFoundError: No module named 'psycopg2'", 'psycopg2'],
  ["a.rb:1:in `require': cannot load such file -- sinatra (LoadError)", 'add the gem'],
  ['sh: 1: gunicorn: not found', 'There is no program gunicorn'],
  ['/bin/sh: 1: exec: puma: not found', 'There is no program puma'],
  ['SyntaxError: Cannot use import statement outside a module', '"type"'],
  ["KeyError: 'SECRET_KEY'", 'the variable SECRET_KEY'],
  ['`fetch\': key not found: "DATABASE_URL" (KeyError)', 'the variable DATABASE_URL'],
  ['Error: DATABASE_URL is not set', 'the variable DATABASE_URL'],
  ['Missing environment: STRIPE_API_KEY is required', 'the variable STRIPE_API_KEY'],
  ['Error: connect ECONNREFUSED 127.0.0.1:5432', 'port 5432'],
  ['Error: listen EADDRINUSE: address already in use :::3000', 'already taken'],
])('%j names the next step', (line, advice) => {
  expect(startAdvice(['starting', `\u001b[31m${line}\u001b[39m`])).toContain(advice)
})

test.each([['TypeError: x is undefined'], ['Error: no config'], ['HTTP is required'], [''], ['a'.repeat(100_000)]])(
  'other lines give no advice',
  (line) => {
    expect(startAdvice([line])).toBeUndefined()
  },
)
