import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useRouter, useSearch } from '@tanstack/react-router'
import { door } from '../../data/client.ts'
import { TextField } from '../../ui/forms/field.tsx'
import { Form, secretOf, textOf } from '../../ui/forms/form.tsx'
import { Door } from './sign-in-frame.tsx'

export function SignIn() {
  const router = useRouter()
  const queries = useQueryClient()
  const { next } = useSearch({ from: '/sign-in' })
  const signIn = useMutation({
    mutationFn: (values: FormData) =>
      door.session.create({ body: { email: textOf(values, 'email'), password: secretOf(values, 'password') } }),
    onSuccess: () => {
      queries.clear()
      // Only a path of this origin: an address from elsewhere would lead users astray.
      router.history.push(next?.startsWith('/') && !next.startsWith('//') ? next : '/projects')
    },
  })
  return (
    <Door title="Sign in" lead="To the dashboard of this server.">
      <Form sending={signIn} submit="Sign in">
        <TextField label="E-mail" name="email" type="email" autoComplete="username" />
        <TextField label="Password" name="password" type="password" autoComplete="current-password" />
      </Form>
      <p className="mt-5 text-[13px] text-muted">
        No user yet? On the server, <code>npx fairlead users setup-link</code> makes a link for one.
      </p>
    </Door>
  )
}
