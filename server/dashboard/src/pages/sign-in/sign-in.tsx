import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useRouter, useSearch } from '@tanstack/react-router'
import { dashboardApi } from '../../data/client.ts'
import { keepSession, knownDevice } from '../../data/session.ts'
import { TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { secretOf, textOf } from '../../ui/forms/values.ts'
import { pathAfterSignIn } from './next-path.ts'
import { SignInFrame } from './sign-in-frame.tsx'

export function SignIn() {
  const router = useRouter()
  const queryClient = useQueryClient()
  const { next } = useSearch({ from: '/sign-in' })
  const signIn = useMutation({
    mutationFn: (values: FormData) =>
      dashboardApi.session.create({
        body: { email: textOf(values, 'email'), password: secretOf(values, 'password'), device: knownDevice() },
      }),
    onSuccess: (begun) => {
      keepSession(begun)
      queryClient.clear()
      router.history.push(pathAfterSignIn(next))
    },
  })
  return (
    <SignInFrame title="Sign in" lead="To the dashboard of this server.">
      <Form mutation={signIn} submit="Sign in">
        <TextField label="E-mail" name="email" type="email" autoComplete="username" />
        <TextField label="Password" name="password" type="password" autoComplete="current-password" />
      </Form>
      <p className="mt-5 text-[13px] text-muted">
        No user yet? On the server, <code>npx fairlead users setup-link</code> creates a link to make one.
      </p>
    </SignInFrame>
  )
}
