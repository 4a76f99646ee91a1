import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { LogOut } from 'lucide-react'
import { dashboardApi } from '../data/client.ts'
import { sessionQuery } from '../data/queries.ts'
import { forgetSession } from '../data/session.ts'
import { Button } from '../ui/controls/button.tsx'

/** The signed-in user and the button to sign out. */
export function CurrentUser() {
  const session = useQuery(sessionQuery)
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  const signOut = useMutation({
    mutationFn: () => dashboardApi.session.delete(),
    onSuccess: async () => {
      forgetSession()
      await navigate({ to: '/sign-in' })
      queryClient.clear()
    },
  })
  if (session.data === undefined) return null
  const { user, account } = session.data
  return (
    <div className="flex items-center gap-1">
      <div className="min-w-0 flex-1 text-[13px]">
        <p className="truncate" title={user.email}>
          {user.email}
        </p>
        <p className="truncate text-muted">{account.name}</p>
      </div>
      <Button
        variant="quiet"
        size="icon"
        aria-label="Sign out"
        busy={signOut.isPending}
        onClick={() => signOut.mutate()}
      >
        <LogOut size={15} />
      </Button>
    </div>
  )
}
