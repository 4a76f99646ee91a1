import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useRouter, useSearch } from '@tanstack/react-router'
import { door } from '../../data/client.ts'
import { TextField } from '../../ui/field.tsx'
import { Form, textOf } from '../../ui/form.tsx'
import { problemOf } from '../../ui/states.tsx'
import { Door } from './door.tsx'

export function SignIn() {
  const router = useRouter()
  const queries = useQueryClient()
  const { next } = useSearch({ from: '/sign-in' })
  const signIn = useMutation({
    mutationFn: (values: FormData) =>
      door.session.create({ body: { email: textOf(values, 'email'), password: String(values.get('password') ?? '') } }),
    onSuccess: () => {
      queries.clear()
      // Only a path of this origin: an address from elsewhere would lead users astray.
      router.history.push(next?.startsWith('/') && !next.startsWith('//') ? next : '/projects')
    },
  })
  return (
    <Door title="Sign in" lead="To the dashboard of this server.">
      <Form
        submit="Sign in"
        busy={signIn.isPending}
        error={signIn.error}
        fields={['email', 'password']}
        onSubmit={(values) => signIn.mutate(values)}
      >
        <TextField
          label="E-mail"
          name="email"
          type="email"
          autoComplete="username"
          problem={problemOf(signIn.error, 'email')}
        />
        <TextField
          label="Password"
          name="password"
          type="password"
          autoComplete="current-password"
          problem={problemOf(signIn.error, 'password')}
        />
      </Form>
    </Door>
  )
}
