require 'socket'
require 'bundler/setup'
require 'greeter'

server = TCPServer.new('0.0.0.0', Integer(ENV.fetch('PORT')))
loop do
  client = server.accept
  nil until [nil, "\r\n"].include?(client.gets)
  body = Greeter.greet
  client.print "HTTP/1.1 200 OK\r\ncontent-length: #{body.bytesize}\r\nconnection: close\r\n\r\n#{body}"
  client.close
end
