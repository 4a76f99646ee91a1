defmodule Hello.Application do
  use Application

  def start(_type, _args) do
    port = String.to_integer(System.fetch_env!("PORT"))
    children = [{Task, fn -> Hello.Server.listen(port) end}]
    Supervisor.start_link(children, strategy: :one_for_one, name: Hello.Supervisor)
  end
end

defmodule Hello.Server do
  def listen(port) do
    {:ok, socket} = :gen_tcp.listen(port, [:binary, packet: :http_bin, active: false, reuseaddr: true])
    accept(socket)
  end

  defp accept(socket) do
    {:ok, client} = :gen_tcp.accept(socket)
    spawn(fn -> answer(client) end)
    accept(socket)
  end

  defp answer(client) do
    case :gen_tcp.recv(client, 0) do
      {:ok, :http_eoh} ->
        body = "Hello from Elixir"
        :inet.setopts(client, packet: :raw)
        head = "HTTP/1.1 200 OK\r\ncontent-length: #{byte_size(body)}\r\nconnection: close\r\n\r\n"
        :gen_tcp.send(client, head <> body)
        :gen_tcp.close(client)

      {:ok, _} ->
        answer(client)

      {:error, _} ->
        :gen_tcp.close(client)
    end
  end
end
