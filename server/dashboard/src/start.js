// Runs before the page is first drawn, and before anything else loads.

// The chosen theme must not flash in the other theme's colours. src/shell/theme.ts has the same key.
const chosen = localStorage.getItem('fairlead-theme')
if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen

// A part of the page did not arrive: the network has changed, or the server is away. Without its script the page is
// empty, so it is loaded again. A page without its style may be in use already, so only the style is loaded again,
// soon, because a network change takes only a moment.
addEventListener(
  'error',
  ({ target }) => {
    const isFirst = document.readyState !== 'complete'
    if (target instanceof HTMLScriptElement && isFirst) setTimeout(() => location.reload(), 2_000)
    const isStyle = target instanceof HTMLLinkElement && target.rel === 'stylesheet'
    if (!isStyle || !(isFirst || 'again' in target.dataset)) return
    const again = target.cloneNode()
    again.dataset.again = ''
    setTimeout(() => target.replaceWith(again), isFirst ? 100 : 2_000)
  },
  true,
)

// Until the application has loaded, the heading names the page, from its address. Pages without the frame of signed-in
// users begin empty.
const heading = new MutationObserver(() => {
  const element = document.querySelector('#root h1')
  if (element === null) return
  heading.disconnect()
  const parts = location.pathname.split('/').filter((part) => part !== '')
  const last = parts.at(-1) ?? 'projects'
  const isOne = /^[a-z]+_\w{26}$/.test(last)
  const name = (isOne ? (parts.at(-2) ?? '').replace(/s$/, '') : last).replaceAll('-', ' ')
  if (/^(sign-in|setup|device)$/.test(parts[0] ?? '')) document.getElementById('root').replaceChildren()
  else element.textContent = `${name.charAt(0).toUpperCase()}${name.slice(1)}`
})
heading.observe(document, { childList: true, subtree: true })
