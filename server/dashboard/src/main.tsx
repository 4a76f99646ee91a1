import { focusManager, type QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { createQueryClient, dashboardApi } from './data/client.ts'
import { sessionQuery } from './data/queries.ts'
import { watchOtherTabs } from './data/session.ts'
import { hasSessionEnded, noteSessionBegin, noteSessionEnd, onSessionChange } from './data/session-end.ts'
import { writeQuery } from './data/write-query.ts'
import { pathAfterSignIn } from './pages/sign-in/next-path.ts'
import { createAppRouter } from './router.tsx'
import { applyTheme, chosenTheme } from './shell/theme.ts'
import './theme.css'

// Radix adds a style element while a dialog is open. The content security policy allows it by the page's nonce.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce
if (nonce) setNonce(nonce)

applyTheme(chosenTheme())
const router = createAppRouter()
const askToSignIn = () => {
  const { pathname, href } = router.state.location
  if (pathname !== '/sign-in') void router.navigate({ to: '/sign-in', search: { next: href } })
}
const queryClient: QueryClient = createQueryClient(() => {
  // An open page keeps everything that was typed; the user signs in above it.
  if (queryClient.getQueryData(sessionQuery.queryKey) === undefined) askToSignIn()
  else noteSessionEnd()
})
// Without a session, requests would be refused and count as failed attempts.
onSessionChange(() => focusManager.setFocused(hasSessionEnded() ? false : undefined))

/** Continues the page after a sign-in in another tab. Reloads for another user, so that data of two users never mix. */
async function goOn(): Promise<void> {
  const before = queryClient.getQueryData(sessionQuery.queryKey)
  const now = await dashboardApi.session.get().catch(() => undefined)
  noteSessionBegin()
  if (before === undefined || before.user.id !== now?.user.id) return queryClient.resetQueries()
  await writeQuery(queryClient, sessionQuery, now)
  await queryClient.invalidateQueries()
}

watchOtherTabs((signedIn) => {
  const { pathname, search } = router.state.location
  const isOpen = pathname === '/sign-in' || pathname === '/setup'
  if (!signedIn) {
    if (!isOpen) askToSignIn()
    queryClient.clear()
  } else if (pathname === '/sign-in') {
    queryClient.clear()
    router.history.push(pathAfterSignIn(search.next))
  } else if (!isOpen) void goOn()
})

const root = document.getElementById('root')
if (root === null) throw new Error('the page has no #root element')
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
)
