// Without this script the page lacks nothing but the copy buttons and, on small screens, the closed menu.
for (const button of document.querySelectorAll('button.copy')) {
  button.hidden = false
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(button.closest('figure').querySelector('pre').textContent)
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 1500)
  })
}

const menu = document.querySelector('details.menu')
const narrow = matchMedia('(max-width: 52rem)')
const fit = () => {
  menu.open = !narrow.matches
}
narrow.addEventListener('change', fit)
fit()
menu.addEventListener('click', (event) => {
  if (narrow.matches && event.target.closest('a') !== null) menu.open = false
})
