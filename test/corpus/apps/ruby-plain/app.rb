require 'socket'

server = TCPServer.new('0.0.0.0', Integer(ENV.fetch('PORT')))
loop do
  client = server.accept
  line = client.gets
  nil until [nil, "\r\n"].include?(client.gets)
  body = "Hello from Ruby #{RUBY_ENGINE}: #{line&.split&.at(1)}"
  client.print "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: #{body.bytesize}\r\nconnection: close\r\n\r\n#{body}"
  client.close
end
