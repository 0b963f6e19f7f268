-- Products by how often they are sold, liked and seen. A count that does not change leaves its index alone, so a view still
-- updates its row in place as long as nobody asks for the order of views: that one is sorted when it is asked for.
create index product_statistic_sales on product_statistic (sales_count, product_id);
create index product_statistic_likes on product_statistic (like_count, product_id);

-- Both columns in one direction, so that a page begins where the one before ended.
drop index order_view_user;
create index order_view_user on order_view (user_id, created_at, order_id);
create index order_view_created on order_view (created_at, order_id);
