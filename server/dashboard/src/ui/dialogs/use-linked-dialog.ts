import { useLocation, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'

/** The end of a link, after its `#`, that opens the dialog of the page that makes something. */
export const newDialog = 'new'

/** Returns the state of a page's dialog, which opens when a link to the page ends with `newDialog`. */
export function useLinkedDialog(): [isOpen: boolean, setOpen: (open: boolean) => void] {
  const [isOpen, setOpen] = useState(false)
  const hash = useLocation({ select: (location) => location.hash })
  const navigate = useNavigate()
  useEffect(() => {
    if (hash !== newDialog) return
    setOpen(true)
    void navigate({ to: '.', replace: true })
  }, [hash, navigate])
  return [isOpen, setOpen]
}
