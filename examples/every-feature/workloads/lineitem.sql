-- weight: 40
SELECT sum(l_extendedprice * l_discount) FROM sales.lineitem
WHERE l_shipdate >= DATE '2026-01-01' AND l_shipdate < DATE '2026-02-01';

-- weight: 900
SELECT * FROM sales.lineitem WHERE l_partkey = 155190;
