export function meta() {
  return [{ title: 'New React Router App' }]
}

export default function Home() {
  return <h1>Welcome to React Router</h1>
}
