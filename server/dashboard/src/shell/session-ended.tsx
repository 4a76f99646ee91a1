import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { dashboardApi } from '../data/client.ts'
import { sessionQuery } from '../data/queries.ts'
import { keepSession, knownDevice } from '../data/session.ts'
import { hasSessionEnded, noteSessionBegin, onSessionChange } from '../data/session-end.ts'
import { Dialog } from '../ui/dialogs/dialog.tsx'
import { TextField } from '../ui/forms/field.tsx'
import { Form } from '../ui/forms/form.tsx'
import { secretOf } from '../ui/forms/values.ts'

/** Asks the user to sign in again when the session has ended. The page below keeps everything that was typed. */
export function SessionEnded() {
  const ended = useSyncExternalStore(onSessionChange, hasSessionEnded)
  const { data: session } = useQuery({ ...sessionQuery, enabled: false })
  const queryClient = useQueryClient()
  const email = session?.user.email ?? ''
  const signIn = useMutation({
    mutationFn: (values: FormData) =>
      dashboardApi.session.create({ body: { email, password: secretOf(values, 'password'), device: knownDevice() } }),
    onSuccess: async (begun) => {
      keepSession(begun)
      noteSessionBegin()
      await queryClient.invalidateQueries()
    },
  })
  return (
    <Dialog
      open={ended && session !== undefined}
      title="Your session has ended"
      description="Sign in again to go on where you are. Nothing that you have typed is lost."
    >
      <Form mutation={signIn} submit="Sign in">
        <TextField label="E-mail" name="email" type="email" autoComplete="username" value={email} readOnly />
        <TextField label="Password" name="password" type="password" autoComplete="current-password" />
      </Form>
      <p className="mt-5 text-[13px] text-muted">
        Not you?{' '}
        <a href="/sign-in" className="text-accent underline">
          Sign in as another user
        </a>
        : this page is left.
      </p>
    </Dialog>
  )
}
