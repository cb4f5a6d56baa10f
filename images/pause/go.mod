module kafkaspark.local/pause

go 1.21
