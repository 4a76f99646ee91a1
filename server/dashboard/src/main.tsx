import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { createQueryClient } from './data/client.ts'
import { createAppRouter } from './router.tsx'
import { applyTheme, chosenTheme } from './shell/theme.ts'
import './theme.css'

// Radix adds a style element while a dialog is open. The content security policy allows it by the page's nonce.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce
if (nonce) setNonce(nonce)

applyTheme(chosenTheme())
const router = createAppRouter()
const queryClient = createQueryClient(() => {
  const { pathname, href } = router.state.location
  if (pathname !== '/sign-in') void router.navigate({ to: '/sign-in', search: { next: href } })
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
